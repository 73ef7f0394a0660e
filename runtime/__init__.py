"""What performs: the public API, the agent-facing API, gateways, the command and the desk."""
