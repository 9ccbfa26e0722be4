"""The most frequent function words of some languages.

They serve twice: to guess the language of a text in Latin letters, and to keep
such words of a question from outweighing what is asked for. Question words are
among them, for they are rare in notes and would count as much as names. Lower
case, NFC, with accents; elided forms without their apostrophe, as the tokenizer
cuts them. Every name of the first table is a Snowball stemmer.
"""

from __future__ import annotations

LATIN: dict[str, frozenset[str]] = {
    name: frozenset(words.split())
    for name, words in {
        "english": """the of and to in is that it was for on as with by at be this from are or an a which have has had
            not but his her he she they their were been who what when where why how will would can could there than
            then if into its about do does did many much whom whose any some such these those also i you we my your
            our me him them no so up out us may should shall being am s t don didn doesn isn wasn ll re ve d m""",
        "german": """der die das und in den von zu mit sich des auf für ist im dem nicht ein eine als auch es an
            werden aus er hat dass daß sie nach wird bei einer um am sind noch wie einem über einen so zum war haben
            nur oder aber vor zur bis mehr durch man sein wurde sei wir ihr ich was wer wann wo warum welche welcher
            welches welchen welchem wieviel viele viel kann können wenn ja nein hatte hatten wurden waren seine
            seiner ihre ihrer eines dieser diese dieses diesem diesen unter""",
        "french": """de la le et les des en un une du dans est que pour qui par sur plus au pas ne se ce il sont avec
            son sa ses aux ou comme mais cette elle été être fait nous vous ils leur on ont même deux où quand quel
            quelle quels quelles quoi comment combien pourquoi était sans entre aussi y a l d qu n s c j m je tu ces
            cet avoir étaient lui""",
        "spanish": """de la que el en y a los se del las un por con no una su para es al lo como más o pero sus le ha
            me si sin sobre este ya entre cuando todo esta ser son dos también fue había era muy años hasta desde
            está qué quién cuál cuáles cuándo dónde cómo cuánto cuántos cuántas porque han eran esto esa ese fueron""",
        "italian": """di e il la che in un a per è una del con non si da i le dei nel della al sono come alla più lo
            gli anche dal ma delle ha l d su o se questo quello ed essere nella era stato sua suo cosa chi quando
            dove come perché quale quali quanto quanti quante ai degli dalla alle nei dell nell all un c cui stati""",
        "portuguese": """de a o que e do da em um para é com não uma os no se na por mais as dos como mas foi ao ele
            das tem à seu sua ou ser quando muito há nos já está eu também só pelo pela até isso ela entre era depois
            sem mesmo aos ter seus quem nas me esse eles está você tinha foram essa num nem suas qual quais onde
            quanto quantos quantas porque são""",
        "dutch": """de van het een en in is dat op te zijn met voor niet aan er om ook als dan maar bij of uit nog
            naar heeft ze hij werd door over wordt deze dit zich wat wie waar wanneer waarom hoe hoeveel welke welk
            was worden kan had hun haar tot je ik geen meer""",
        "swedish": """och i att det som en på är av för med den till inte om ett har de jag var men sig från vi så
            kan när år man under också efter eller nu sin där vid mot ska skulle kommer ut får finns vad vem vilken
            vilket vilka hur varför blev sina""",
        "danish": """og i at det er en til på som af den for med de der ikke et har var fra han om men sig også kan
            efter jeg vi blev så ud eller hvad hvem hvor hvornår hvorfor hvilken hvilket hvilke hvordan bliver dette
            denne være skal når mange""",
        "norwegian": """og i det er på som en til av for at med har de ikke den et om var fra han seg men kan vi jeg
            ble så eller også etter ved ut da nå hva hvem hvor når hvorfor hvilken hvilket hvilke hvordan blir dette
            denne være skal mange noe""",
        "finnish": """ja on ei se että oli hän mutta ovat myös kun joka mukaan kuin sen ole jos tai niin vain jotka
            olla sekä voi nyt jo ne jonka mitä mikä kuka missä milloin miksi miten kuinka tämä tämän joita ollut
            hänen kanssa""",
        "hungarian": """a az és hogy nem is egy van volt de ez meg csak már el mint még ha azt vagy ki mi mit kell
            lehet amely ami aki minden én ő hol mikor miért hogyan melyik mennyi hány lesz olyan után szerint""",
        "romanian": """de și în a la cu pe o un nu din să care este se ce pentru mai că au al ale fi lui fost sau sunt
            prin dar după acest această cum când unde cine cât câți care îi iar fost era între""",
        "turkish": """ve bir bu da de için ile çok olarak ne daha olan gibi var o kadar değil ama ise sonra en
            tarafından olduğu her ya mi mı ki kim nerede nasıl neden hangi kaç oldu ben sen biz""",
        "polish": """w i na z się nie do to jest że o a jak po co od za przez dla są był ale czy tak które który która
            oraz może ich jego jej być tylko przy lub już kto kiedy gdzie dlaczego ile jaki jaka jakie było ze tym
            tego""",
        "czech": """a v se na je že s z do o i to k ve pro za by ale jako po který která které od jsou byl bylo tak
            nebo už co kdo kdy kde proč jak kolik jaký jaká jaké při podle není má jeho jsem však""",
        "catalan": """de la i el que en a les els del un per una és amb al es va no dels com més ha són o seu seva
            aquest aquesta també pel però què qui quan on quin quina quants perquè fou ser hi havia entre""",
        "indonesian": """yang dan di dari untuk dengan ini itu pada dalam adalah tidak akan oleh ke juga karena atau
            sebagai telah dapat mereka ada bisa lebih saya kami kita siapa apa kapan mana mengapa bagaimana berapa
            sudah tersebut""",
    }.items()
}

# Of languages that their script tells: Russian, Greek, Arabic, Hindi, Hebrew, Persian. They serve queries alone.
_OTHER_SCRIPTS = """
    в и не на что с со по как а из за у о об от до для это этот эта эти этого он она они оно его её их был была было
    были быть есть же бы ли или но при так также кто где когда почему зачем какой какая какое какие каком какую каких
    каким сколько чем чего кого кому который которая которое которые которой которую которых том этом к ко мы вы я
    να το του της η ο οι τα των και στο στη στην στον με σε για από που είναι ήταν δεν θα ένα μια ένας πως ποιος ποια
    ποιο ποιοι πού πότε πώς γιατί πόσο πόσα πόσες τι τον την τους τις
    في من على إلى عن أن ما ماذا متى أين كيف لماذا كم هو هي هل مع أو و كان كانت التي الذي هذا هذه ذلك تم لا أي بعد قبل
    التى الى او هم كل قد لم لن
    के का की में है हैं और को से ने पर यह वह था थी थे एक कि जो इस उस क्या कौन कब कहाँ कहां क्यों कैसे कितने कितना कितनी
    किस किसने किसे किसके किसकी किन लिए गया गई गए द्वारा भी नहीं कर या तो ही साथ अपने हो होता हुआ रहा
    של את על לא הוא היא זה עם גם או כי אם מה מי מתי איפה איך למה כמה אשר היה היו
    در به از که این است را با برای آن یک چه چرا کجا چگونه چند کدام شد بود می های
"""
OTHER_SCRIPTS = frozenset(_OTHER_SCRIPTS.split())
