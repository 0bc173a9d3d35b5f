"""The engine of batch APIs: requests in a file, answers in a file, at half the price."""
