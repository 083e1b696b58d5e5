"""Names for the parts of a step, so that torch's profiler can tell them apart. Free of cost but for a microsecond."""

from torch.profiler import record_function

draft, verify, emit, sampling = "specscope::draft", "specscope::verify", "specscope::emit", "specscope::sampling"
SPANS = (draft, verify, emit, sampling)

span = record_function
