"""What a question is grounded in: the evidence that goes into a prompt and stays linked to the record."""
