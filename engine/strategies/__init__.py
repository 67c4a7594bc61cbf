"""Ways of training together. Each is a schedule and a torch kernel; none opens a socket."""
