"""The network: encoder, bridge, decoder and the whole that joins them."""
