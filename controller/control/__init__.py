"""The way in for `tablectl`: one Unix socket, JSON-RPC 2.0, a JSON object a line. Both sides import only `messages`."""
