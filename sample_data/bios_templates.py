"""Templates and fillers of the biographies that make_bios_sample.py writes.

All texts are our own and every person is invented.  A biography is an opening that holds the profession,
then sentences on background and private life.  The opening names the profession ("a nurse"), describes its
work ("changing dressings ..."), or says something that fits two professions ("working at a hospital").
Fields: {name} and {first} name, {They} {they} {their} {them} pronouns, {parent} mother/father,
{child} daughter/son, {sibling} sister/brother, {city} {home} places, {school}, {years} {since} of
experience, {hobby} {hobby2}, {award} year of a prize, {title} with its article, {doing} an -ing phrase.
"""


def _names(text: str) -> list[str]:
    """Return the words of the text."""
    return text.split()


# fmt: off
# profession: (number of biographies, number of them about women)
COUNTS = {
    "journalist": (220, 110),
    "lawyer": (280, 106),
    "nurse": (240, 216),
    "photographer": (170, 61),
    "professor": (360, 162),
    "software engineer": (230, 35),
    "surgeon": (200, 36),
    "teacher": (300, 192),
}

WORDS = {
    "female": {"They": "She", "they": "she", "their": "her", "them": "her",
               "parent": "mother", "child": "daughter", "sibling": "sister"},
    "male": {"They": "He", "they": "he", "their": "his", "them": "him",
             "parent": "father", "child": "son", "sibling": "brother"},
}

FIRST_NAMES = {
    "female": _names(
        "Alice Amelia Anna Barbara Beatrice Caroline Catherine Charlotte Claire Clara Deborah Diana "
        "Eleanor Elizabeth Emily Emma Fiona Grace Hannah Helen Isabel Jane Janet Jennifer Jessica Joanna "
        "Julia Karen Katherine Laura Linda Lucy Margaret Maria Martha Mary Megan Monica Nancy Natalie "
        "Nicole Olivia Patricia Rachel Rebecca Rosa Ruth Sarah Sophia Susan Teresa Vanessa Victoria"
    ),
    "male": _names(
        "Adam Albert Andrew Anthony Arthur Benjamin Brian Charles Christopher Daniel David Dennis Edward "
        "Eric Frank George Gregory Harold Henry Hugo Ian Jack Jacob James John Jonathan Joseph Kenneth "
        "Kevin Lewis Luke Mark Martin Matthew Michael Nathan Oliver Oscar Patrick Paul Peter Philip "
        "Raymond Richard Robert Simon Stephen Steven Thomas Timothy Victor Walter William"
    ),
}

SURNAMES = _names(
    "Abbott Alvarez Appleby Barlow Becker Bianchi Blackwood Brennan Calloway Castellan Chandra Clarke "
    "Cole Costa Dalton Delgado Drummond Easton Eriksen Fairley Farrow Fletcher Garrity Ghosh Granger "
    "Hadley Halloran Hartwell Hayashi Holm Iyer Jansen Keating Kowalski Larkin Lindqvist Mahoney "
    "Marchetti Mbeki Merrick Moreau Nakamura Novak Okafor Osborne Pellegrin Petrov Pickering Quigley "
    "Radcliffe Ramsey Rosenthal Rowe Sandoval Schaefer Sinclair Tanaka Thorne Underhill Vance Vasquez "
    "Weller Whitcombe Yates Zielinski"
)

CITIES = _names(
    "Aberdeen Adelaide Antwerp Auckland Baltimore Bergen Birmingham Boston Bristol Brisbane Cardiff "
    "Chicago Cork Denver Dublin Edinburgh Galway Glasgow Halifax Hamburg Leeds Lisbon Liverpool Lyon "
    "Manchester Melbourne Minneapolis Montreal Norwich Nottingham Oslo Ottawa Philadelphia Pittsburgh "
    "Portland Porto Rotterdam Sacramento Seattle Sheffield Toronto Utrecht Vancouver Wellington York"
)

SCHOOLS = (
    "Ashbourne College", "Brookmere University", "Calder Valley College", "Eastmoor University",
    "Fenwick Hall", "Greyfriars College", "Highfield University", "Kingsbridge College",
    "Lakeside State University", "Marlowe College", "Northgate University", "Oakhurst College",
    "Ravenswood University", "Southbank College", "Thornbury University", "Westerham State University",
)

HOBBIES = (
    "baking sourdough bread", "birdwatching on the marshes", "collecting old maps", "cycling in the hills",
    "doing crosswords", "fishing for trout", "growing tomatoes", "hiking with two old dogs", "keeping bees",
    "learning Portuguese", "listening to jazz records", "painting in watercolour", "playing chess",
    "playing the cello", "playing the piano badly", "reading crime novels", "repairing clocks",
    "restoring a wooden boat", "rowing on the river", "running half-marathons", "sailing along the coast",
    "singing in a choir", "swimming in cold lakes", "walking the coast path", "watching old films",
    "cooking for friends", "gardening", "climbing", "camping by the sea", "dancing the tango",
)

TITLES = {
    "journalist": ("a journalist", "a freelance journalist", "an investigative journalist",
                   "a sports journalist", "a political journalist", "a radio journalist",
                   "a science journalist", "a business journalist"),
    "lawyer": ("a lawyer", "a family lawyer", "a tax lawyer", "a criminal defence lawyer",
               "a corporate lawyer", "an employment lawyer", "an immigration lawyer", "a patent lawyer"),
    "nurse": ("a nurse", "a registered nurse", "a staff nurse", "a paediatric nurse", "a district nurse",
              "an intensive care nurse", "a school nurse", "a hospice nurse"),
    "photographer": ("a photographer", "a portrait photographer", "a wedding photographer",
                     "a wildlife photographer", "a fashion photographer", "a landscape photographer",
                     "a freelance photographer", "a food photographer"),
    "professor": ("a professor", "a professor of history", "an associate professor of chemistry",
                  "a professor of economics", "a professor of linguistics",
                  "a professor of physics", "a professor of sociology", "a professor of philosophy"),
    "software engineer": ("a software engineer", "a senior software engineer", "a graphics software engineer",
                          "a lead software engineer", "an embedded software engineer",
                          "a freelance software engineer", "a back-end software engineer",
                          "a principal software engineer"),
    "surgeon": ("a surgeon", "an orthopaedic surgeon", "a heart surgeon", "a plastic surgeon",
                "a consultant surgeon", "a transplant surgeon", "an eye surgeon", "a trauma surgeon"),
    "teacher": ("a teacher", "a primary school teacher", "a maths teacher", "a music teacher",
                "a kindergarten teacher", "a secondary school teacher", "an art teacher",
                "a special needs teacher"),
}

WORK = {
    "journalist": (
        "chasing sources for a national daily", "filing stories from the city council",
        "interviewing ministers for the evening news", "reporting on courts and crime for a weekly paper",
        "writing long features on the oil industry", "checking leaked documents before they go to print",
        "writing a column on housing for a newspaper", "reporting from abroad for a radio station",
        "breaking stories on sports and money", "editing the front page of a regional paper",
    ),
    "lawyer": (
        "defending clients who can't pay in the county court", "drafting contracts for shipping firms",
        "settling divorces and custody disputes", "arguing appeals before a panel of judges",
        "helping tenants to fight eviction in court", "preparing wills and trusts for old clients",
        "negotiating mergers as a partner in a law firm", "cross-examining witnesses in fraud trials",
        "advising refugees on their asylum claims", "suing employers over unpaid wages",
    ),
    "nurse": (
        "changing dressings and giving out medicine on a ward", "taking blood and checking drips at night",
        "sitting with the dying and washing them with care", "giving vaccinations at a village clinic",
        "measuring blood pressure and calming patients", "visiting old people at home to treat wounds",
        "watching over premature babies at their cots", "handing over patients to the night shift at bedside",
        "running a diabetes clinic next to the doctors", "making beds, charting fevers and lifting patients",
    ),
    "photographer": (
        "taking portraits of musicians in a small studio", "shooting weddings with two old cameras",
        "waiting in hides with a long lens for foxes and owls", "developing black-and-white film by hand",
        "shooting covers for fashion magazines", "lighting and shooting dishes for cookery books",
        "making pictures of empty factories for galleries", "taking pictures of newborn babies and families",
        "shooting buildings for architects at dawn", "printing large landscapes for exhibitions",
    ),
    "professor": (
        "leading a research group on battery chemistry", "supervising doctoral theses on medieval trade",
        "lecturing on economics and publishing on wages", "chairing a department of philosophy",
        "writing monographs on the grammar of Basque", "refereeing for physics journals and winning grants",
        "holding a university chair in sociology", "giving seminars on Kant to graduate students",
        "directing an institute for climate research", "publishing papers on number theory with students",
    ),
    "software engineer": (
        "writing code for a payments company", "fixing bugs in the servers of an online shop",
        "building mobile apps for hospitals", "maintaining an open-source database in Rust",
        "designing programming interfaces for a search engine", "writing firmware for washing machines",
        "reviewing code and deploying to the cloud", "moving old COBOL programs to Java",
        "building compilers for new processors", "automating tests for a video game studio",
    ),
    "surgeon": (
        "replacing hips and knees in the operating theatre", "operating on the hearts of small children",
        "transplanting kidneys and livers", "removing tumours through keyhole incisions",
        "rebuilding faces after road accidents", "operating on cataracts, twelve in a morning",
        "scrubbing in for emergency operations at midnight", "repairing torn ligaments for athletes",
        "leading a team at the operating table", "opening skulls to stop bleeding in the brain",
    ),
    "teacher": (
        "helping six-year-olds to read their first words", "preparing fifteen-year-olds for maths exams",
        "leading the school choir and giving violin lessons", "keeping a class of thirty children busy",
        "talking to parents about their children's reports", "supporting pupils who learn slowly",
        "running the drama club of a secondary school", "showing infants how to count and share",
        "marking spelling tests at a village school", "giving French lessons at a secondary school",
    ),
}

# two professions that share ways to speak of their work: such a text cannot tell which of the two it is
SHARED_WORK = {
    ("nurse", "surgeon"): (
        "looking after patients at a large hospital", "working long shifts at a city hospital",
        "seeing patients before and after operations", "working with a team in theatre",
        "treating people hurt in accidents", "being on call for the emergency department",
        "helping patients back on their feet", "explaining treatments to worried families",
        "training young colleagues on the wards", "working nights at a children's hospital",
        "volunteering with a medical charity in war zones", "caring for people with cancer",
    ),
    ("professor", "teacher"): (
        "standing in front of a class", "teaching history to young people",
        "preparing lessons and marking papers", "explaining chemistry to those who fear it",
        "teaching mathematics", "helping students to find their own voice",
        "writing textbooks and trying them out in class", "teaching music and its history",
        "taking students to museums and archives", "grading essays on Shakespeare",
        "teaching languages to beginners", "working in education",
    ),
    ("journalist", "photographer"): (
        "covering elections and football for a newspaper", "travelling to remote places for magazines",
        "telling the stories of ordinary people", "working for a news agency abroad",
        "documenting life in fishing towns", "following politicians on the campaign trail",
        "doing reportage on the changing climate", "covering wars and their survivors",
        "working freelance for magazines and websites", "getting strangers to tell their secrets",
        "meeting deadlines for the Sunday paper", "covering fashion weeks",
    ),
    ("lawyer", "software engineer"): (
        "solving problems for big companies", "finding the one mistake in a very long document",
        "advising start-ups on privacy and data", "working late to meet the deadlines of banks",
        "working on licences for open-source programs", "writing texts that only specialists can read",
        "working for a technology company", "protecting clients from fraud on the internet",
        "taking complicated rules apart", "working for an insurance company",
        "breaking hard cases into small pieces", "consulting for government agencies",
    ),
}

TITLE_OPENINGS = (
    "{name} is {title} in {city}.",
    "{name} has been {title} for {years} years.",
    "{name} works as {title} in {city} and has done so since {since}.",
    "Based in {city}, {name} is {title} with {years} years of experience.",
    "As {title}, {name} has worked in {city} and {home}.",
    "{name} became {title} in {since} and has never wanted another job.",
    "{name}, {title} from {home}, now lives in {city}.",
    "After some years in {home}, {name} settled in {city} as {title}.",
    "Few people in {city} have been {title} for as long as {name}.",
    "It took {name} a while to become {title}, and {they} loves it.",
)

WORK_OPENINGS = (
    "{name} spends {their} days {doing}.",
    "{name} has spent {years} years {doing}.",
    "In {city}, {name} makes {their} living by {doing}.",
    "Since {since} {name} has been {doing}.",
    "Ask {name} about {their} work, and {they} will talk about {doing}.",
    "{name} lives in {city}, where most of {their} week goes into {doing}.",
    "{name} came to {city} in {since} and has been {doing} ever since.",
    "For {years} years now, {doing} has been what {name} does best.",
    "{name} started out in {home}; today {they} is known in {city} for {doing}.",
    "There are easier jobs than {doing}, but {name} would not swap.",
)

BACKGROUND = (
    "{They} grew up in {home} and studied at {school}.",
    "{They} holds a degree from {school}, where {they} met {their} first mentor.",
    "Born in {home}, {they} was the first in {their} family to go to {school}.",
    "{They} trained at {school} and took {their} first job in {home}.",
    "{First} left {home} at eighteen for {school}, and {they} still visits {their} old friends there.",
    "Before that {they} had studied at {school}, a choice that surprised {their} parents.",
    "{Their} colleagues describe {them} as patient, exact and hard to discourage.",
    "{They} won a regional award in {award}, which {they} keeps in {their} kitchen.",
    "In {years} years {they} has trained many beginners, and {they} is proud of each of them.",
    "A graduate of {school}, {they} also sits on the board of a small charity in {home}.",
    "{They} says that {their} time at {school} taught {them} to listen first.",
    "{They} owes {their} start to an aunt in {home} who believed in {them}.",
)

PRIVATE = (
    "Outside work {they} enjoys {hobby} and {hobby2}.",
    "{They} lives with {their} family and relaxes by {hobby}.",
    "On Sundays {they} is usually found {hobby}.",
    "A {parent} of two, {they} spends {their} free time {hobby}.",
    "{First} is devoted to {hobby}, a habit {they} picked up from {their} grandparents.",
    "When {they} is not at work, {first} likes {hobby}.",
    "{Their} other passions are {hobby} and {hobby2}.",
    "The only {child} of a baker from {home}, {they} still gets up at five.",
    "With {their} {sibling}, {they} also runs a small club for people who like {hobby}.",
    "{They} shares a house with three cats and would rather be {hobby}.",
    "In {their} spare hours {they} takes to {hobby}, whatever the weather.",
    "{They} plans to retire to {home} one day and spend {their} time {hobby}.",
)
