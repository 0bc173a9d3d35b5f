"""Servers with OpenAI's API: the engine for chats, and the engine for batches."""
