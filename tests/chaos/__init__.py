"""The whole program broken on purpose: a real tabled, a pty, a real mosquitto, SIGKILL."""
