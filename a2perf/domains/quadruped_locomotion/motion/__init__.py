"""Reference motions: clips, gaits, rotations and the reward of imitation."""
