"""Graph scripts: short programs that find, count, join and rank what stands in a knowledge graph.

docs/gasl.md is the language. `parse` turns a text into commands, `execute` runs them on a `Graph`; what a
script leaves behind is a `State`, plain JSON, from which it goes on after a kill. PROCESS, CLASSIFY and
GENERATE ask through one function, `ask(prompts) -> answers`; everything else is computed.
"""
