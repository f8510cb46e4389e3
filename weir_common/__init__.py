"""Code shared by the control plane and the pipeline. The lowest layer: imports nothing of the project and no third-party library."""
