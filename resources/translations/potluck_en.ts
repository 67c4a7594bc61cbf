<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE TS>
<TS version="2.1" language="en" sourcelanguage="en">
<context>
    <name>format</name>
    <message numerus="yes">
        <source>%n days</source>
        <translation>
            <numerusform>%n day</numerusform>
            <numerusform>%n days</numerusform>
        </translation>
    </message>
</context>
<context>
    <name>header</name>
    <message numerus="yes">
        <source>%n more reasons</source>
        <translation>
            <numerusform>%n more reason</numerusform>
            <numerusform>%n more reasons</numerusform>
        </translation>
    </message>
</context>
<context>
    <name>home</name>
    <message numerus="yes">
        <source>the last at {time}, with %n computers</source>
        <translation>
            <numerusform>the last at {time}, with %n computer</numerusform>
            <numerusform>the last at {time}, with %n computers</numerusform>
        </translation>
    </message>
</context>
<context>
    <name>machine</name>
    <message numerus="yes">
        <source>%n cores</source>
        <translation>
            <numerusform>%n core</numerusform>
            <numerusform>%n cores</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>%n threads</source>
        <translation>
            <numerusform>%n thread</numerusform>
            <numerusform>%n threads</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>%n days</source>
        <translation>
            <numerusform>%n day</numerusform>
            <numerusform>%n days</numerusform>
        </translation>
    </message>
</context>
<context>
    <name>projects</name>
    <message numerus="yes">
        <source>%n more. Search to find them.</source>
        <translation>
            <numerusform>%n more. Search to find it.</numerusform>
            <numerusform>%n more. Search to find them.</numerusform>
        </translation>
    </message>
</context>
<context>
    <name>rail</name>
    <message numerus="yes">
        <source>%n things need you</source>
        <translation>
            <numerusform>%n thing needs you</numerusform>
            <numerusform>%n things need you</numerusform>
        </translation>
    </message>
</context>
<context>
    <name>settings</name>
    <message numerus="yes">
        <source>about {used} of %n cores, at the lowest priority</source>
        <translation>
            <numerusform>about {used} of %n core, at the lowest priority</numerusform>
            <numerusform>about {used} of %n cores, at the lowest priority</numerusform>
        </translation>
    </message>
    <message numerus="yes">
        <source>%n days</source>
        <translation>
            <numerusform>%n day</numerusform>
            <numerusform>%n days</numerusform>
        </translation>
    </message>
</context>
<context>
    <name>week</name>
    <message numerus="yes">
        <source>%n hours a week</source>
        <translation>
            <numerusform>%n hour a week</numerusform>
            <numerusform>%n hours a week</numerusform>
        </translation>
    </message>
</context>
</TS>
