"""Entry points: one file is one command, verb_noun, with ``run()`` for DAGs and tests and ``main()`` for a shell."""
