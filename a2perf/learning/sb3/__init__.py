"""What is particular to training runs with Stable-Baselines3: vector environments and a callback.

``environments`` adapts a Gymnasium vector environment, ``training_callback`` logs, evaluates, saves and resumes,
``checkpoint`` holds what a checkpoint is made of. Import them after ``frameworks``; the package above needs none.
"""
