"""The Batch API of OpenAI, and programs that answer its files, as an engine."""

SECTION = "Batch APIs"
ENTRIES = {"engines": {"openai_batch": "engine:OpenAIBatchEngine"}}
