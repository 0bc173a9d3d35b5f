"""The engine for servers with OpenAI's chat API."""
