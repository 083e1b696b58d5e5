"""How user turns begin that the target goes on with itself: what people ask, in English and some Turkish."""

OPENINGS = tuple(
    """Give me|Write a|Explain|Explain how|What is|What is the difference between|How do I|How can I|Why do|Why does
|Suggest|List|Tell me|Describe|Compare|Can you|I have|I want to|Help me|Plan|Who was|When did|Where is|Which|Is it
|Should I|My|Write a short story about|Write a poem about|Write an email|Write a letter to|Recommend|Create a|Define
|Name three|Give an example of|What are the benefits of|What are the steps to|Write a Python function that
|Write a Python class|Write an SQL query that|Write a JavaScript function|Write a bash script|Write a unit test for
|Fix this code:|Explain this code:|Write a regular expression|Write a C program|Write HTML
|Add comments to this code:|Translate into French:|Translate into Spanish:|Translate into German:
|Summarise this in one sentence:|Summarize the following text:|Write a headline for this:
|List the main points of this text:|Correct the spelling in this paragraph:|Correct the grammar:
|Rewrite this politely:|Repeat this sentence:|Copy the following text exactly:|Bana|Türkiye'de|İstanbul'da
|Kısaca anlat:|Bir|Nasıl|Neden|Ankara|Şu cümleyi|Bu metni düzelt:|Türk|Hangi|Merhaba,|Lütfen|Python ile""".replace(
        "\n", ""
    ).split("|")
)
