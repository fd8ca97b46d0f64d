"""The demo: a supervisor, a reader and a writer make a brief of text files, are graded, and repair it.

`scripts/demo` runs it. Read `team.py` for the agents, `grading.py` for what is demanded of a brief, and `command.py`
for the way from the command line to the screen. Without a key, `stand_in.py` answers instead of a model.
"""
