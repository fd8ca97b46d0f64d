"""alfine: a supervisor delegates, its answer is graded, and what a grader finds wrong goes back until it holds."""
