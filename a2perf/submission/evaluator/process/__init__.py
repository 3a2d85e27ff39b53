"""The process of the participant: started, confined, asked and ended."""
