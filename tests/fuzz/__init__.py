"""Whatever bytes come in from outside: a value or the border's own refusal comes out, and nothing else."""
