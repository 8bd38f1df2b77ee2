"""How is a model served over the Open Inference Protocol with ONNX Runtime?"""
