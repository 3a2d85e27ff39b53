"""The robot in PyBullet and MuJoCo behind one interface."""
