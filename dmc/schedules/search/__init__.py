"""The search for a schedule: rows by rules, improved step by step, and by an integer program where they are few."""
