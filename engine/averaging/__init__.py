"""The averaging round: PURE rules, numpy kernels, and a runner."""
