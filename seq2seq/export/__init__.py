"""Export a trained model to ONNX, and translate with it without torch."""
