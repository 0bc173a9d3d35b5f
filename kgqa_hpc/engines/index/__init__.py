"""An index that answers queries, as the engine of the step `retrieve`."""
