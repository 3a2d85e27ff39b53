"""Where whole runs execute; ``get_launcher("local")`` runs them on this machine."""

from a2perf.launch.interface import Launcher, RunCommand, get_launcher

__all__ = ["Launcher", "RunCommand", "get_launcher"]
