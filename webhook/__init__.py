"""The admission webhook: pure handlers in `admission`, the process in `server`."""
