"""The admission webhook: handlers in `admission`, the process in `server`."""
