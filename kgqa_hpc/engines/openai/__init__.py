"""Any server that speaks OpenAI's chat API."""
