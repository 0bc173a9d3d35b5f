"""The engine for batch APIs: requests and answers in files, at half the price."""
