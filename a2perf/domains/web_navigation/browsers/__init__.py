"""Pages in process and in Chromium behind one interface."""
