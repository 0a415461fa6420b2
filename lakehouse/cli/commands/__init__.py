"""The commands of ``tidemark``, one file each; a command loads the layer it needs when it is called."""
