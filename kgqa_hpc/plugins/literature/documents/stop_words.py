"""Words and abbreviations that are also names of genes or proteins and are not searched for.

Chosen by reading the 500 most frequent matches of UniProt's and HGNC's names in 33,277 abstracts, and the
lower-case ones whole; then the words that give fruit-fly genes their names. A name in capitals
(`CAT`, `WAS`, `MET`) is no word: it is looked for as it stands.
"""

_OF_THE_LANGUAGE = """
a about above add after again age ago aid aim air all also am an and any apt are arm art as ask at atonal
bag bald bar bat be bed been before best bet bib bid big bit both bound brat but by can cap car case
castor cell cells change clot cocoa con cost could cube cue cut dab daily damage data day dead der des
design did dim do does done down drop dusky each early ease echo eco elastic end engrailed era even ever
eye eyes fasciclin fat few fig fine fire first fish fit five flower flu for forked form found four from
full fur gem gene genes genesis get giant go goal good gram grand great groucho had hairy half hand has
have head heart help her here high him hinge his hold hole hook hour how human if impact in is it jerky
job join key kit knot lab lag lame large last late law lead led left less let life light like limb line
link lit little load lobe local long loop low made mal male man many map mast mat may me mean men mice
mid might mile mind mini minor mode mol more most mouse much mug must my name net new next nine no nor
not now nub nude null off old on once one only open or other our out over own pan pants part pass past
patched path paul peak penumbra per period pest pipe plum point pole poor por post prim pro pump quo rat
raw ray real red rep rest rib rigid ring risk role roof rough round run sad salvador same san say scale
scope scraps scribble sea seem self sense set setting seven shank she shop short shot show side simple
sit six size slim slit slow small smooth snail so solo some son spasm spatial speck spin spot spy stand
star start stem step still stop strap string strip sum sun surf tag tail take tan tank tap tar target
task team ten tend term test than that the their them then there these they thin this those three tie
time tip to toll too top tram trap trident trim trio trip tube tune twin twist two type unit up us use
vein vel via vial view was way we web wee well were what when where which white who will wing with wrap
wyatt yellow yes yet you zero
"""
_OF_THE_TRADE = """
adrenoleukodystrophy alpha antibody antigen ara beta chain cofactor complex delta dna domain enzyme
epsilon eta factor fragment fre frey gamma glycoprotein hormone hpf inhibitor isoform kappa kbp kinase
lambda lectin ligand lipoprotein lnc membrane mer molecule mutant omega peptide phosphatase
phosphoprotein polymerase polypeptide polyprotein precursor protease protein proteins putative receptor
rho ribosome rna sigma subunit theta toxin transporter uncharacterized unknown virus zeta
"""
# Compared case-insensitively.
_ABBREVIATED = """
16S 18S 23S ADHD ADP AIDS Ala ALS AMP ANOVA Arg ASD Asn Asp ATP B12 BMI Ca2 cAMP CBT CCl4 cDNA cell-1 cGMP CI
CO2 COPD COVID-19 CPAP CT Cu2 Cys day-1 DDT dec-1 DNA ECG EEG EMG EMT ESI FAD FDA FDG Fe2 Fe3 g-1 GC-MS GDP Gln Glu
Gly GMP GTP H2O H2O2 HCC His HIV HPLC ICU III Ile IQR IVF kg-1 L-1 LED Leu LPS Lys m6A Met mg-1 Mg2 min-1
miRNA mL-1 Mn2 mol-1 MoS2 MRI mRNA MSC NAD NADH NADP NADPH NH3 NIH NMR NO2 NO3 O2 PCA PCB PCI PCR PET PFAS Phe
Pro PTSD qPCR REM RNA ROS rRNA RT-PCR SARS SD SDS SDS-PAGE SEM Ser SERS siRNA SO2 TEM THP-1 Thr TLC TNM TOF
tRNA Trp Tyr USA Val VII VIII WHO XII XIII XRD Zn2
"""
WORDS = frozenset(f"{_OF_THE_LANGUAGE} {_OF_THE_TRADE}".split())
ABBREVIATIONS = frozenset(_ABBREVIATED.split())


def is_stop_word(name: str) -> bool:
    """Whether this spelling almost never means a gene or protein."""
    return name in ABBREVIATIONS or (name.lower() in WORDS and not name.isupper())
