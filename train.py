"""Train a translator: `python train.py data=multi30k attention=dot`; `-m` sweeps."""

from seq2seq.cli.train import main

if __name__ == "__main__":
    main()
