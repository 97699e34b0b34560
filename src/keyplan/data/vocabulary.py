"""The words that generated texts are made of: short, distinct, lower-case letters only."""

_WORDS = """
amber anchor apple arrow aspen autumn badge bamboo basil beacon berry birch bison blanket blue bold bolt bottle
brass brave breeze brick bridge bright bronze brook brush bucket butter button cabin cable cactus camel candle
canvas carbon cargo castle cedar chalk charm cherry chess clay clever cloud clover coast cobalt cocoa comet copper
coral cotton crane cream crisp crown crystal cubic curve daisy dawn deep deer delta denim desert dial dome dove
dragon drift dune eager eagle early earth echo elder elm ember emerald engine falcon fancy feather fern field fig
finch fire flame flint flute foam forest fox frame fresh frost garden garnet gentle ginger glass globe glove gold
grain granite grape grass green grove guitar harbor hawk hazel heron hill hollow honey horizon horse indigo iris
iron island ivory ivy jade jasper jolly juniper kettle kind king kite ladder lagoon lake lamp large lark laurel leaf
lemon light lilac lily lime linen lion little lotus lucky lunar magnet maple marble meadow mellow melon metal mild
mint mirror misty modern moon moss mountain music navy nectar needle noble north nova oak oasis ocean olive onyx
opal orange orchid otter oval owl paper patrol pearl pebble pepper pine planet plum polar pond poppy prime proud
pure quartz quick quiet quill rabbit rain raven red reef ridge river robin rocket rose round ruby rustic saddle
saffron sage sail sand scarlet shadow sharp shell silent silk silver simple sky slate small smart smooth snow soft
solar solid spark spice spring spruce star steel stone storm strong summer sunny swan swift table tall teal thunder
tide tiger timber topaz torch tower trail tulip turtle valley velvet vine violet vivid walnut warm water wave west
whale wheat white wild willow wind winter wise wolf wool yellow young zebra zephyr zinc
"""

VOCABULARY = tuple(_WORDS.split())
