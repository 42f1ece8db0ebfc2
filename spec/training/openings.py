"""How people begin what they ask a model: the seeds from which it makes its own prompts."""

from dataclasses import dataclass
from typing import Literal

Shape = Literal["turn", "code", "summary", "questions", "rewrite"]


@dataclass(frozen=True)
class Kind:
    """One kind of request. `{topic}` in an opening is replaced by one of TOPICS."""

    name: str
    shape: Shape
    openings: tuple[str, ...]
    share: int = 1  # how often it takes its turn, against other kinds


SYSTEMS = (
    "You are a helpful AI assistant named SmolLM, trained by Hugging Face",
    "You are a helpful assistant.",
    "You are an expert who answers the questions of curious people.",
    "The user is a student who asks for help with homework.",
    "The user is a professional who needs a task done precisely.",
)

TOPICS = (
    "the ocean", "a small village", "volcanoes", "electric cars", "bees", "medieval castles",
    "the stock market", "jazz music", "a lost letter", "space travel", "chess", "healthy cooking",
    "the Roman Empire", "climate change", "a detective", "solar energy", "ancient Egypt",
    "learning languages", "coffee", "a football club", "robots", "photography", "rainforests",
    "the human heart", "trains", "a school trip", "vaccines", "painting", "online privacy",
    "a hurricane", "elections", "gardening", "black holes", "a bakery", "mountain climbing",
    "the French Revolution", "dogs", "public libraries", "gravity", "a family business",
    "artificial intelligence", "sleep", "the Great Wall of China", "recycling", "a wedding",
    "Japanese food", "dinosaurs", "a hospital", "cryptography", "the moon landing", "rivers",
    "a court trial", "earthquakes", "bicycles", "the printing press", "a movie festival",
    "antibiotics", "migration", "a robbery", "photosynthesis", "tennis",
    "the Industrial Revolution",
    "wolves", "a new phone", "inflation", "poetry", "Mars", "a city council", "genetics", "bridges",
    "an old theatre", "wild fires", "salt", "the Silk Road", "a charity run", "computer games",
    "glaciers", "a power plant", "democracy", "whales", "a museum", "insurance", "the brain",
    "a space telescope", "fashion", "a flood", "cheese", "the Olympic Games", "airports", "memory",
)  # fmt: skip

KINDS = (
    Kind("writing", "turn", (
        "Write a short story about {topic}", "Compose an engaging blog post about {topic}",
        "Write a persuasive email to", "Draft a professional letter", "Write a poem about {topic}",
        "Describe a vivid scene", "Write a descriptive paragraph about {topic}",
        "Could you write a speech", "Write a captivating opening", "Create an advertisement for",
        "Help me write an essay on {topic}", "Write a product review",
    )),
    Kind("roleplay", "turn", (
        "Pretend yourself to be", "Imagine you are a", "Act as a", "You are a doctor",
        "Please take on the role of", "Assume the role of a travel guide", "Now you are a teacher",
        "Embrace the role of", "I want you to act as an English translator",
        "Picture yourself as a 100-year-old tree",
    )),
    Kind("reasoning", "turn", (
        "If all", "Imagine you are in a race", "Suppose that", "Which of the following",
        "A man is looking at", "One morning", "Each problem consists of three statements.",
        "There are three boxes", "Thomas is", "Parents have complained", "What is the next number",
        "Is it possible that", "Which word does not belong with the others?",
        "You can see a beautiful red house to your left",
    )),
    Kind("maths", "turn", (
        "Maria has", "John buys", "A train travels", "A bakery sells", "There are", "In a class of",
        "Sarah wants to", "A farmer has", "Tom earns", "A store offers a discount of",
        "A rectangle has", "Solve the equation", "What is the probability that",
        "Emma and her brother", "Each day, a worker", "A car uses", "The sum of two numbers",
        "Kevin reads", "A box contains", "If x =", "Ben has twice as many", "A company has",
        "Lisa saves $", "On Monday,",
    ), share=2),
    Kind("coding", "turn", (
        "Write a Python function that", "Write a C++ program", "Implement a function to find",
        "How do I", "Write a simple website in HTML", "Write a SQL query that",
        "Implement a program to", "What does this Python code do?\n\ndef",
        "Fix the bug in this Python code:\n\n```python\ndef", "Write a regular expression that",
        "A binary tree is", "Create a class in Python",
    )),
    Kind("functions", "code", (
        "def", "def", "from typing import List\n\n\ndef", "import math\n\n\ndef", "def is_",
        "def count_",
        "from typing import List, Tuple\n\n\ndef", "def find_", "def get_", "def sum_",
        "def remove_",
        "def sort_", "def string_", "def max_", "def filter_", "def convert_", "def check_",
    ), share=2),
    Kind("extraction", "turn", (
        "Extract the following information from the text:", "Evaluate the following movie reviews",
        "Given these categories", "Identify the countries, their capitals",
        "Extract all the names and dates from this text:",
        "Please read the paragraph below and count",
        "Given the following data, return a JSON object", "Identify the named entities in",
        "Analyze the following customer review", "List the main points of the text below.\n\n",
        "Given the following records of stock prices",
    )),
    Kind("science", "turn", (
        "In the field of quantum physics, what is", "What is", "Explain how", "Why does",
        "How does",
        "Explain the difference between", "What are the main causes of", "Describe the process of",
        "What happens when", "Please explain in simple terms", "What is the function of",
        "Given that", "Which statements are true about", "What is the central idea of",
    )),
    Kind("humanities", "turn", (
        "Provide insights into the correlation between", "How do the stages of",
        "Explain the history of",
        "What was the significance of", "Compare and contrast", "Discuss the", "Who was",
        "What role did", "Describe the main ideas of", "Explain the concept of", "Why did",
        "Suggest five award-winning documentary films about {topic}",
        "Create a lesson plan about {topic}", "What are the arguments for and against {topic}",
    )),
    Kind("translation", "turn", (
        "Translate German to English: Die", "Translate German to English: Der",
        "Translate German to English: Ich", "Translate German to English: Es",
        "Translate German to English: Wir", "Translate German to English: In",
        "Translate German to English: Das", "Translate German to English: Ein",
        "Translate German to English: Nach", "Translate German to English: Mit",
        "Translate German to English: Sie", "Translate German to English: Am",
        "Translate French to English: Le", "Translate French to English: Les",
        "Translate French to English: Il", "Translate Spanish to English: El",
        "Translate Spanish to English: La", "Translate the following sentence into French:",
        "Translate this into Spanish:", "Translate the following text from English to German:",
    ), share=2),
    Kind("questions", "turn", (
        "who", "what", "when was", "where is", "how many", "which country", "who wrote", "who won",
        "what is the name of", "when did", "where did", "who played", "what year", "how long",
        "who sings", "What is the capital of", "Who invented", "what does", "who is the",
        "when does", "how much", "where was", "in which", "Name",
    ), share=2),
    Kind("advice", "turn", (
        "How can I", "What should I", "Can you recommend", "Give me tips for", "I have", "I'm",
        "What are some ways to", "Can you help me", "Plan a trip to", "Give me a recipe for",
        "Create a list of", "What are the benefits of {topic}", "Hi", "Hello", "Please", "I need",
        "Brainstorm ideas for {topic}", "Make a schedule",
    )),
    Kind("summary", "summary", (
        "Summarize: ", "Summarize the following article:\n\n", "Please summarize this text:\n\n",
        "Give a short summary of the text below.\n\n", "Write a summary in three sentences.\n\n",
        "TL;DR of this article:\n\n", "What are the key points of this text?\n\n",
    )),
    Kind("passages", "questions", (
        "Read the passage and answer the question.\n\n",
        "Answer the question using the text.\n\n", "",
        "Given the following context, answer the question below.\n\nContext: ",
        "Use the documents below to answer the question.\n\nDocument 1: ", "Passage: ",
    )),
    Kind("rewrite", "rewrite", (
        "Rewrite the following text in a friendlier tone:\n\n",
        "Edit this paragraph for grammar:\n\n",
        "Make this text shorter:\n\n", "Rewrite this for a ten-year-old:\n\n",
        "Turn the following text into bullet points:\n\n", "Correct all mistakes in this text:\n\n",
        "Repeat the following text exactly:\n\n", "Rewrite this text in the past tense:\n\n",
    )),
)  # fmt: skip

CODE_REQUEST = "Complete the following Python function:\n\n"

ARTICLES = (
    "Write a news article about {topic}.", "Write a long article about {topic}.",
    "Write an encyclopedia entry about {topic}.", "Write a newspaper report about {topic}.",
    "Explain the history of {topic} in detail.", "Write a few paragraphs about {topic}.",
    "Write a biography of someone known for {topic}.",
)  # fmt: skip

QUESTIONS = ("Question:", "Question: What", "Question: Who", "Question: How", "Question: Why",
             "Question: When", "Q:", "Question: Which", "Question: Where")  # fmt: skip
