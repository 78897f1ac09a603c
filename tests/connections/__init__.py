"""Where Redis is and how it is reached: clusters, Sentinel, TLS, users, sockets; no password is told."""
