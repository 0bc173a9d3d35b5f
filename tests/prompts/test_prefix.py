"""Instructions are read once: nearly all tokens of p5 and filter are the same for every item.

Measured with the real tokenizer and chat template of the bundled model.
"""

import random

import pytest

from kgqa_hpc.anchors.anchor import Anchor, Node, Relation, graph_variables
from kgqa_hpc.prompts.prompt import load_prompt

# Entries of the Human Phenotype Ontology and names that occur beside them.
PHENOTYPES = (
    *("Abnormality of body height", "Global developmental delay", "Autosomal recessive inheritance"),
    *("Decreased circulating ceruloplasmin concentration", "Bilateral sensorineural hearing impairment"),
    *("Aplasia/Hypoplasia of the distal phalanges of the hand", "Hypertrophic cardiomyopathy"),
)
DISEASES = (
    *("Spondyloepiphyseal dysplasia congenita", "Developmental and epileptic encephalopathy 42"),
    *("Charcot-Marie-Tooth disease axonal type 2Z", "Ehlers-Danlos syndrome, hypermobility type"),
)
NAMES = [
    *((name, "Phenotype") for name in PHENOTYPES),
    *((name, "Gene") for name in ("FGFR3", "COL2A1", "SCN1A")),
    *((name, "Disease") for name in DISEASES),
]
SHAPES = [
    (3, [(0, 1), (1, 2)]),
    (4, [(0, 1), (0, 2), (0, 3)]),
    (5, [(0, 1), (1, 2), (2, 3), (3, 4)]),
    (5, [(0, 1), (1, 2), (2, 3), (3, 4), (0, 2), (0, 3), (0, 4), (1, 3), (1, 4), (2, 4)]),
]
# As long as the published pairs are: 237 and 528 characters in the mean (the original code).
QUESTION = (
    "In a child with disproportionate short stature and bilateral sensorineural hearing impairment, which "
    "skeletal dysplasia caused by a defect of type II collagen accounts for both findings and for the early "
    "high myopia?"
)
ANSWER = (
    "Spondyloepiphyseal dysplasia congenita. Heterozygous variants of COL2A1 impair the assembly of type II "
    "collagen, the main fibrillar collagen of hyaline cartilage, of the vitreous and of the inner ear. "
    "Growth plates and vertebral bodies ossify late, which shortens the trunk; the same defect in the "
    "vitreous leads to high myopia, and in the cochlea to hearing loss. The shared molecular cause thus "
    "explains why skeletal, ocular and auditory findings occur together in one patient, and why the eyes "
    "need regular examination."
)


def anchors(count):
    rng = random.Random(7)
    for number in range(count):
        size, edges = SHAPES[number % len(SHAPES)]
        nodes = tuple(Node(str(i), *entry) for i, entry in enumerate(rng.sample(NAMES, size)))
        relations = tuple(Relation(a, b, "is associated with") for a, b in edges)
        yield Anchor(f"a{number}", "graphlet", f"shape {number % 29 + 1}", nodes, relations)


@pytest.fixture(scope="module")
def tokenizer():
    pytest.importorskip("xllamacpp", reason="THE SHARE OF THE COMMON PREFIX IS NOT MEASURED: no xllamacpp")
    from kgqa_hpc.engines.cpu import LlamaServer, bundled_model
    from kgqa_hpc.errors import EngineConfigError

    try:
        model = bundled_model()
    except EngineConfigError as problem:
        pytest.skip(f"THE SHARE OF THE COMMON PREFIX IS NOT MEASURED: {problem.message}")
    server = LlamaServer(model, 1, 4096, 1, None)
    yield server
    server.close()


def shared_share(prompts):
    """Tokens of the common prefix of all prompts, relative to their mean length."""
    shortest = min(map(len, prompts))
    columns = zip(*(prompt[:shortest] for prompt in prompts), strict=True)
    common = next((i for i, column in enumerate(columns) if len(set(column)) > 1), shortest)
    return common * len(prompts) / sum(map(len, prompts))


@pytest.mark.parametrize(
    ("name", "hidden"), [("p5", {}), ("p5", {"relations": []}), ("filter", {"answer": ANSWER})]
)
def test_at_least_85_percent_of_a_prompt_is_common_to_all_items(tokenizer, name, hidden):
    prompt = load_prompt(name)
    tokens = []
    for anchor in anchors(40):
        question = {"question": f"{anchor.nodes[0].name}: {QUESTION}"}
        tokens.append(tokenizer.prompt_tokens(prompt.render(graph_variables(anchor) | question | hidden)))
    share = shared_share(tokens)
    print(f"{name}: {share:.1%} of {sum(map(len, tokens)) / len(tokens):.0f} tokens")
    assert share >= 0.85


@pytest.mark.parametrize("name", ["p5", "filter"])
def test_prompt_and_longest_answer_fit_a_context_of_4096_tokens(tokenizer, name):
    prompt = load_prompt(name)
    instructions = tokenizer.prompt_tokens([{"role": "system", "content": prompt.system}])
    assert len(instructions) + prompt.max_tokens + 700 <= 4096
