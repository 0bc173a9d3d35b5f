"""What answers prompts: lmdeploy, openai, cpu and scripted, behind one interface (engine.py)."""
