// The data of the page, and what panels look up in it.

const VIEW = JSON.parse(document.getElementById("data").textContent);

const FAMILIES = [
  ["control", /^(if|case|while|for|scan|call|function|checkpoint|custom_vjp)\b/],
  ["product", /^(conv|gemm|matmul|einsum|attention|winograd|quantized|dot|lstm|gru|rnn)/],
  ["reduction", /^(reduce|softmax|log_softmax|layer_norm|.*norm|.*pool|arg|cum|top_k|sort)/],
  ["movement", /^(transpose|reshape|slice|concat|gather|scatter|pad|expand|border|copy|cast|constant|insert|tile|resize|squeeze)/],
];

// What kind of work an operator or a kernel does, by its name: it has the color.
const familyOf = (name) => (FAMILIES.find(([, pattern]) => pattern.test(name)) || ["elementwise"])[0];

class Build {
  constructor(record, number) {
    Object.assign(this, record);
    this.number = number;
    this.kernelByName = new Map(this.kernels.map((each) => [each.name, each]));
    this.callsOfKernel = grouped(this.calls, (call) => call.kernel);
    this.callOfNode = new Map();
    this.kernelsOfOrigin = new Map();
    for (const call of this.calls) {
      if (call.node !== null) this.callOfNode.set(call.node, call);
      for (const origin of call.origin) {
        if (!this.kernelsOfOrigin.has(origin)) this.kernelsOfOrigin.set(origin, new Set());
        this.kernelsOfOrigin.get(origin).add(call.kernel);
      }
    }
    this.reasons = grouped(this.apart, ([reader]) => reader);
    this.measured = new Map(Object.entries(this.time?.kernels_ns || {}));
  }

  nanoseconds(kernel) {
    return this.measured.get(kernel) ?? null;
  }

  // A kernel's part of all kernels' time.
  share(kernel) {
    return this.time ? (this.measured.get(kernel) ?? 0) / sum([...this.measured.values()]) : 0;
  }

  expected(kernel) {
    const calls = this.callsOfKernel.get(kernel) || [];
    return calls.some((each) => each.expected_ns === null) || !calls.length
      ? null
      : sum(calls.map((each) => each.expected_ns));
  }

  // The nodes of the model, or lines of the program, that a kernel computes.
  origins(kernel) {
    return [...new Set((this.callsOfKernel.get(kernel) || []).flatMap((call) => call.origin))];
  }
}

const BUILDS = VIEW.builds.map((record, number) => new Build(record, number));

