"""Progress of a run, its rate, and forecasts of time and cost."""
