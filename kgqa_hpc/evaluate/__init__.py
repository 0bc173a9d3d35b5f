"""What a dataset, a judge, a prompt or a model is worth: statistics over people's and judges' opinions."""
