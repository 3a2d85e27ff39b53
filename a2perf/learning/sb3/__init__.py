"""What is particular to trainings with Stable-Baselines3: vector environments, and the callback of a training.

``environments`` turns a Gymnasium vector environment into theirs, ``callback`` is the callback that logs, evaluates,
saves and resumes, ``checkpoint`` holds what a checkpoint is made of, ``quadruped`` makes robots that learn. They are
imported by those who use them, after ``frameworks``; the room above needs no framework.
"""
