"""Translate with a trained model: `python translate.py checkpoint=checkpoints/NAME`."""

from seq2seq.cli.translate import main

if __name__ == "__main__":
    main()
