"""What the tests share: tiny models and tokenizers, models that follow a script, and exact laws."""
