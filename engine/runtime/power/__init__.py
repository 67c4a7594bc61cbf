"""What the operating system announces and grants: sleep, shutdown, logout, waking, staying awake."""
