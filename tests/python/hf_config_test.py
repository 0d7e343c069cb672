"""Configurations of Hugging Face against `transformers` itself.

usage: hf_config_test.py HEDDLE CONFIGS

Of every config.json in CONFIGS: the parameters that heddle counts are those of the model that `transformers` builds.
Of small models of the families that heddle trains: from the weights of a checkpoint, the loss, the gradients and three
steps of training under a pipeline of processes are PyTorch's, in double precision.
"""

import json
import pathlib
import struct
import subprocess
import sys
import tempfile

import numpy
import torch
import transformers

HEDDLE, CONFIGS = sys.argv[1], pathlib.Path(sys.argv[2])
RATE = 0.5
TOLERANCE = 1e-9

failures = []


def expect(good, what):
    if not good:
        failures.append(what)
        print("FAILED:", what, flush=True)


def heddle(*arguments):
    done = subprocess.run([HEDDLE, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"heddle {' '.join(map(str, arguments))}: exit {done.returncode}\n{done.stderr}")
    return done.stdout


def model_of(values, attention="eager"):
    values = dict(values)
    architecture = values["architectures"][0]
    config = transformers.AutoConfig.for_model(**values)
    config._attn_implementation = attention
    return getattr(transformers, architecture)(config)


# --- how many parameters ---

# transformers 5 ties the tables of a T5 whatever its file says; the published weights have two of 32128 x 512.
ALSO_PUBLISHED = {"flan-t5-small": 32128 * 512}


def check_counts():
    for path in sorted(CONFIGS.glob("*.json")):
        with torch.device("meta"):
            model = model_of(json.loads(path.read_text()))
        theirs = sum(p.numel() for p in model.parameters()) + ALSO_PUBLISHED.get(path.stem, 0)
        ours = json.loads(heddle("models", path, "--json"))["rows"][0]["parameters"]
        expect(ours == theirs, f"{path.name}: heddle counts {ours}, transformers {theirs}")
        print(f"{path.stem}: {ours} parameters", flush=True)


# --- the same numbers ---


def read_safetensors(path):
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        assert entry["dtype"] == "F64", entry
        first, last = (8 + size + offset for offset in entry["data_offsets"])
        values = numpy.frombuffer(data[first:last]).reshape(entry["shape"])
        tensors[name] = torch.from_numpy(values.copy())
    return tensors


def weights_of(ours, config, table):
    """Their weights by name, of ours: linear layers are transposed, attention's are packed."""
    hidden = config["hidden_size"]
    made = {}
    for name, theirs in table:
        if isinstance(theirs, tuple):  # rows of a table behind those that nothing reads
            theirs, offset = theirs
            made[theirs] = (ours[name], offset)
        elif name.endswith(".qkv"):
            for place, each in enumerate(theirs.split(",")):
                weight = ours[name + ".w"][:, place].reshape(hidden, hidden)
                made[each + ".weight"] = (weight.T, 0)
                made[each + ".bias"] = (ours[name + ".bias"][place].reshape(hidden), 0)
        elif name + ".scale" in ours:
            made[theirs + ".weight"] = (ours[name + ".scale"], 0)
            made[theirs + ".bias"] = (ours[name + ".shift"], 0)
        elif name + ".w" in ours:
            bias = ours[name + ".bias"]
            weight = ours[name + ".w"]
            if weight.dim() == 4:  # a convolution
                made[theirs + ".weight"] = (weight, 0)
            else:
                made[theirs + ".weight"] = (weight.reshape(-1, bias.numel()).T, 0)
            made[theirs + ".bias"] = (bias, 0)
        else:
            made[theirs] = (ours[name], 0)
    return made


def opt_table(config):
    layer = "model.decoder.layers.{}."
    attention = layer + "self_attn."
    table = [
        ("embed.tokens", "model.decoder.embed_tokens.weight"),
        ("embed.positions", ("model.decoder.embed_positions.weight", 2)),
        ("head.ln", "model.decoder.final_layer_norm"),
    ]
    for i in range(config["num_hidden_layers"]):
        at, in_layer = attention.format(i), layer.format(i)
        table += [
            (f"block{i}.qkv", f"{at}q_proj,{at}k_proj,{at}v_proj"),
            (f"block{i}.proj", at + "out_proj"),
            (f"block{i}.ln1", in_layer + "self_attn_layer_norm"),
            (f"block{i}.ln2", in_layer + "final_layer_norm"),
            (f"block{i}.fc1", in_layer + "fc1"),
            (f"block{i}.fc2", in_layer + "fc2"),
        ]
    return table


def encoder_table(config, name, first_position, head):
    table = [
        ("embed.tokens", name + ".embeddings.word_embeddings.weight"),
        ("embed.positions", (name + ".embeddings.position_embeddings.weight", first_position)),
        ("embed.segments", name + ".embeddings.token_type_embeddings.weight"),
        ("embed.ln", name + ".embeddings.LayerNorm"),
    ] + head
    for i in range(config["num_hidden_layers"]):
        layer = f"{name}.encoder.layer.{i}."
        at = layer + "attention.self."
        table += [
            (f"block{i}.qkv", f"{at}query,{at}key,{at}value"),
            (f"block{i}.proj", layer + "attention.output.dense"),
            (f"block{i}.ln1", layer + "attention.output.LayerNorm"),
            (f"block{i}.ln2", layer + "output.LayerNorm"),
            (f"block{i}.fc1", layer + "intermediate.dense"),
            (f"block{i}.fc2", layer + "output.dense"),
        ]
    return table


def roberta_table(config):
    head = [("head.dense", "lm_head.dense"), ("head.ln", "lm_head.layer_norm"), ("head.bias", "lm_head.bias")]
    return encoder_table(config, "roberta", 2, head)


def bert_table(config):
    head = [
        ("head.dense", "cls.predictions.transform.dense"),
        ("head.ln", "cls.predictions.transform.LayerNorm"),
        ("head.bias", "cls.predictions.bias"),
    ]
    return encoder_table(config, "bert", 0, head)


FEW = {"hidden_size": 12, "num_hidden_layers": 3, "num_attention_heads": 3, "vocab_size": 256}
SMALL = {
    "opt": dict(
        FEW,
        model_type="opt",
        architectures=["OPTForCausalLM"],
        ffn_dim=20,
        word_embed_proj_dim=12,
        max_position_embeddings=8,
        activation_function="relu",
        do_layer_norm_before=True,
        dropout=0.0,
        attention_dropout=0.0,
        pad_token_id=1,
    ),
    "roberta": dict(
        FEW,
        model_type="roberta",
        architectures=["RobertaForMaskedLM"],
        intermediate_size=20,
        max_position_embeddings=10,
        type_vocab_size=1,
        hidden_act="gelu",
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        layer_norm_eps=1e-5,
        pad_token_id=1,
    ),
}
SMALL["bert"] = dict(
    SMALL["roberta"],
    model_type="bert",
    architectures=["BertForMaskedLM"],
    max_position_embeddings=8,
    layer_norm_eps=1e-12,
    pad_token_id=0,
)
TABLES = {"opt": opt_table, "roberta": roberta_table, "bert": bert_table}
POSITIONS = 8
SAMPLES = 6


def assign(model, made):
    named = dict(model.named_parameters())
    with torch.no_grad():
        for name, (value, offset) in made.items():
            target = named[name]
            target[offset : offset + value.shape[0]] = value.reshape(
                target[offset : offset + value.shape[0]].shape
            )


def largest_difference(made, values):
    """Between values of theirs by name and ours, relative to the largest element; and of which.

    What is nothing but rounding, as gradients of keys' biases are, is compared with what the others are.
    """
    largest = max(value.abs().max().item() for value in values.values())
    worst = (0.0, "")
    for name, (value, offset) in made.items():
        theirs = values[name][offset : offset + value.shape[0]]
        theirs = theirs.reshape(value.shape)
        scale = max(theirs.abs().max().item(), 1e-6 * largest)
        worst = max(worst, ((value - theirs).abs().max().item() / scale, name))
    return worst


def check_numbers(family, strategy, folder):
    """Every batch holds all samples there are, so that it does not matter in which order they come."""
    config = SMALL[family]
    path = folder / f"{family}.json"
    path.write_text(json.dumps(config))
    # The end of the text is held out: one window.
    generator = numpy.random.default_rng(3)
    text = bytes(generator.integers(32, 127, (SAMPLES + 1) * POSITIONS + 1).astype(numpy.uint8))
    (folder / "text").write_bytes(text)
    plan, run = folder / f"{family}-{strategy}-plan.json", folder / f"{family}-{strategy}-run"
    heddle("plan", "--model", path, "--cluster", "2 cpu-core", "--batch", SAMPLES, "--strategy", strategy, "--dtype",
           "fp64", "--optimizer", "sgd", "-o", plan)
    heddle("run", plan, "--steps", 4, "--data", f"text:{folder / 'text'}", "--validation", 1 / (SAMPLES + 1),
           "--rate", RATE, "--save-every", 1, "--keep", 4, "--dir", run)
    log = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    losses = {line["step"]: line["loss"] for line in log if "loss" in line}

    def saved(step):
        tensors = read_safetensors(run / f"checkpoints/step-{step:08d}/tensors.safetensors")
        return weights_of(tensors, config, TABLES[family](config))

    torch.set_default_dtype(torch.float64)
    model = model_of(config, "sdpa").train()  # eager attention is partly in single precision
    before = saved(1)
    assign(model, before)
    read = list(text)
    windows = [read[k * POSITIONS : k * POSITIONS + POSITIONS + 1] for k in range(SAMPLES)]
    tokens = torch.tensor([window[:-1] for window in windows])
    targets = torch.tensor([window[1:] for window in windows])
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    for step in (2, 3, 4):
        optimizer.zero_grad()
        logits = model(input_ids=tokens).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
        loss.backward()
        what = f"{family} under {strategy}, step {step}"
        error = abs(losses[step] - loss.item()) / loss.item()
        expect(error < TOLERANCE, f"{what}: loss {losses[step]}, PyTorch's {loss.item()}")
        after = saved(step)
        gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
        ours = {name: ((before[name][0] - after[name][0]) / RATE, after[name][1]) for name in after}
        gradient_error, name = largest_difference(ours, gradients)
        # They are differences of weights, which have lost some digits.
        expect(gradient_error < 10 * TOLERANCE, f"{what}: gradients differ by {gradient_error}, {name}")
        optimizer.step()
        weights = {name: parameter.detach() for name, parameter in model.named_parameters()}
        weight_error, name = largest_difference(after, weights)
        expect(weight_error < TOLERANCE, f"{what}: weights differ by {weight_error}, {name}")
        print(f"{what}: loss off by {error:.1e}, gradients {gradient_error:.1e}, weights {weight_error:.1e}",
              flush=True)
        before = after


check_counts()
with tempfile.TemporaryDirectory() as temporary:
    for each in SMALL:
        for strategy in ("1f1b", "spmd"):
            check_numbers(each, strategy, pathlib.Path(temporary))
if failures:
    sys.exit(f"{len(failures)} differences from transformers {transformers.__version__}")
print("equal to transformers", transformers.__version__)
