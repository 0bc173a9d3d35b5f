"""What an engine does on this machine: real prompts through the real engine process, measured (kgqa bench)."""
