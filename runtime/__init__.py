"""Messages, models, the journal, the loop, the check, limits and traces. It knows no Agent and no scorer class."""
